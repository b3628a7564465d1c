package cluster

import "testing"

func TestDisturbs(t *testing.T) {
	t.Parallel()
	for _, r := range "\x00\t\n\r\x1b\x7f\u0085\u009b\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		if !Disturbs(r) {
			t.Errorf("%U passes", r)
		}
	}
	for _, r := range " aZ~ü字😀…é\u0301\u200b\u200d\u2029" {
		if Disturbs(r) {
			t.Errorf("%U does not", r)
		}
	}
}
