package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/socketpath"
)

// Where the package has put the unit, it is the unit that does not run.
func TestAnAgentThatIsDownIsAUnit(t *testing.T) {
	t.Parallel()
	for socket, want := range map[string]string{
		socketpath.System: "'systemctl start bellows-agent.service' as root", "/tmp/a.sock": "start one with 'bellows dev'",
	} {
		if err := Explain(fmt.Errorf("ask: %w", api.ErrNoAgent), socket); !strings.Contains(err.Error(), want) {
			t.Errorf("at %s: %v", socket, err)
		}
	}
}
