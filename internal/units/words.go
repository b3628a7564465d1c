package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Count says how many there are of something.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// Seconds says a number of seconds as precisely as it matters.
func Seconds(s float64) string {
	switch {
	case s < 0:
		return "?"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case s < 100:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	}
	return Span(time.Duration(s * float64(time.Second)))
}

// Span says how long something takes in its two largest units.
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Size says a number of bytes.
func Size(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		value, unit = value/(1<<10), u
		if value < 1<<10 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// List writes values as a person would, as in 1, 2, 4.
func List[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ", ")
}
