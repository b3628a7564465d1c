package checkpoint

import (
	"strings"
	"testing"
)

func TestShortage(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		room Room
		last int64
		want []string
	}{
		{Room{Known: true, FreeBytes: 12 * mib}, 10 * mib, nil},
		{Room{Known: true, FreeBytes: 12*mib - 1}, 10 * mib, []string{"/ck", "12.0 MiB are free", "needs 12.0 MiB", "make room"}},
		{Room{Known: true, FreeBytes: 3 * mib}, 10 * mib, []string{"3.0 MiB are free", "needs 12.0 MiB"}},
		{Room{Known: true, FreeBytes: 0}, 0, nil},
		{Room{Known: true, FreeBytes: 1 << 40, NoFiles: true}, 1, []string{"/ck", "another file", "delete files"}},
		{Room{}, 1 << 60, nil},
	} {
		got := c.room.Shortage("/ck", c.last)
		if (got == "") != (len(c.want) == 0) {
			t.Errorf("%+v after %d bytes: %q", c.room, c.last, got)
		}
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%+v after %d bytes: %q does not say %q", c.room, c.last, got, w)
			}
		}
	}
}
