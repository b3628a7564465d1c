package settings

import (
	"errors"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
)

// permanent makes an error in a service's settings one of usage: only a person can correct it, and
// with that status a unit does not start the service again. Two errors may pass by themselves and
// stay as they are. A certificate may not be valid yet because the clock is set late at boot, or
// not any more until a renewed one is copied; and a directory of users may not answer yet.
func permanent(err error) error {
	if errors.Is(err, trust.ErrPasses) || errors.Is(err, errNoDirectory) {
		return err
	}
	return fault.AsUsage(err)
}
