package policy

import "github.com/bellows-ml/bellows/allocator"

// Frugal reports whether the policy says of itself that it leaves devices idle by design.
func Frugal(p allocator.Policy) bool {
	_, ok := p.(frugal)
	return ok
}

// Restless reports whether the policy says of itself that what it starts can move others once more.
func Restless(p allocator.Policy) bool {
	_, ok := p.(restless)
	return ok
}
