package output

import "testing"

func TestBar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		done, of int
		want     string
	}{
		{0, 60, "[                              ] 0 of 60 jobs"},
		{20, 60, "[==========                    ] 20 of 60 jobs"},
		{60, 60, "[==============================] 60 of 60 jobs"},
		{0, 0, "[==============================] 0 of 0 jobs"},
	} {
		if got := Bar(c.done, c.of, "jobs"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
