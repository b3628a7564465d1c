//go:build !cgo

package nvml

import "errors"

// open has nothing to open: the library is reached through C.
func open(string) (surveyor, error) {
	return nil, errors.New("this bellows was built without cgo and cannot load the NVIDIA library: build it with CGO_ENABLED=1 and a C compiler")
}
