package milp

import "fmt"

// The names of the solvers. Own stands for allocator/solve, which Open does not open.
const (
	Own       = "own"
	NameHiGHS = "highs"
	NameCBC   = "cbc"
)

// CheckName says what is wrong with the name of a solver, as a value of --solver.
func CheckName(name string) error {
	switch name {
	case Own, NameHiGHS, NameCBC:
		return nil
	}
	return fmt.Errorf("--solver %q: use %s, %s or %s", name, Own, NameHiGHS, NameCBC)
}

// Open finds the solver of a name, which is not Own. The error of a solver that
// is not installed says how to install it.
func Open(name string) (Solver, error) {
	if name == NameCBC {
		return OpenCBC()
	}
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return OpenHiGHS(dir)
}
