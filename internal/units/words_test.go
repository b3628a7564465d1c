package units

import (
	"testing"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Count(1, "worker"):    "1 worker",
		Count(0, "worker"):    "0 workers",
		Count(2, "process"):   "2 processes",
		Seconds(0.211):        "0.21 s",
		Seconds(42.25):        "42.2 s",
		Seconds(3700):         "1h01m",
		Seconds(-1):           "?",
		Span(59e9):            "59s",
		Span(61e9):            "1m01s",
		Span(3 * 24 * 3600e9): "3d00h",
		Span(-5):              "0s",
		Size(1023):            "1023 B",
		Size(1 << 20):         "1.0 MiB",
		Size(5 << 40):         "5.0 TiB",
		Size(5 << 50):         "5120.0 TiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
