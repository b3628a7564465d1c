package warm

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/sdk"
)

// The numbers and words of early.py are those of the shim.
func TestEarlyConstants(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"SIGNAL = " + strconv.Itoa(sdk.EarlySignal) + "\n", "STATUS = " + strconv.Itoa(sdk.EarlyStatus) + "\n", `LESSON = "` + sdk.EarlyLesson + `"` + "\n"} {
		if !strings.Contains(string(sdk.Early), line) {
			t.Errorf("sdk/early.py has no line %q", line)
		}
	}
}
