package settings

import (
	"errors"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
)

// unmended is a fault of what a service was told, which only a person can mend:
// it ends with the status with which its unit does not start it again. A
// certificate that is not valid now is none: the clock may be set late at boot, and
// a renewed one be copied, by somebody who does not look at the unit. Nor is a
// directory of users that does not answer yet.
func unmended(err error) error {
	if errors.Is(err, trust.ErrPasses) || errors.Is(err, errNoDirectory) {
		return err
	}
	return fault.AsUsage(err)
}
