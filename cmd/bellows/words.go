package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// seconds says a number of seconds as precisely as it matters.
func seconds(s float64) string {
	switch {
	case s < 0:
		return "?"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case s < 100:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	}
	return span(time.Duration(s * float64(time.Second)))
}

// span says how long something takes in its two largest units.
func span(d time.Duration) string {
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

// size says a number of bytes.
func size(bytes int64) string {
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

// whereText says in words which nodes may run a job.
func whereText(w cluster.Where) string {
	var parts []string
	if len(w.Nodes) > 0 {
		parts = append(parts, "only on "+nodesText(w.Nodes))
	}
	if len(w.Not) > 0 {
		parts = append(parts, "not on "+nodesText(w.Not))
	}
	if w.DeviceModel != "" {
		parts = append(parts, fmt.Sprintf("on devices whose model has %q in its name", w.DeviceModel))
	}
	if w.DeviceMemoryBytes > 0 {
		parts = append(parts, "on devices of "+size(int64(w.DeviceMemoryBytes))+" or more")
	}
	return strings.Join(parts, ", ")
}

// nodesText names nodes for people.
func nodesText(nodes []cluster.NodeID) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(nodes), "[]"), " ", ", ")
}
