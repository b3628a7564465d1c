package output

import (
	"fmt"
	"strings"
)

// barWidth is the number of characters between the brackets of a bar.
const barWidth = 30

// Bar shows how many of all things are done, as "[===   ] 3 of 6 jobs".
func Bar(done, of int, what string) string {
	full := barWidth
	if of > 0 {
		full = barWidth * min(done, of) / of
	}
	return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done, of, what)
}
