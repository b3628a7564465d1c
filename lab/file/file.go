// Package file opens files for the readers of the laboratory, which take what
// they read as an io.Reader. Its errors name the file and, once, what is wrong
// with it.
package file

import (
	"fmt"
	"io"
	"os"

	"github.com/bellows-ml/bellows/internal/fault"
)

// Read opens a file, hands it to a reader with its name, and closes it.
func Read[T any](name string, read func(name string, r io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return v, fmt.Errorf("read %s: %w", name, fault.Reason(err))
	}
	defer f.Close()
	return read(name, f)
}
