package units

import (
	"testing"
)

func TestByteSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"4096": 4096, "64M": 64 << 20, "64MiB": 64 << 20, "64MB": 64 << 20, "1.5G": 3 << 29, "2TiB": 2 << 40, "1K": 1 << 10, "10B": 10, " 1G ": 1 << 30,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1G", "G", "1X", "1GG", "1 G", "nan", "inf", "99999999T", "1e400", "0.2"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
