package verify

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// own are the modules that verify brings, or has brought, and those that Python looks for at its start.
const own = " bellows bellows_verify bellows_verify_launch bellows_launcher sitecustomize usercustomize torch numpy"

// hostile has the test run in a folder of another user's modules: one for each name of the standard library, and of
// what verify itself imports. Each writes its name into the file whose name is returned.
func hostile(t *testing.T) (witness string) {
	t.Helper()
	names, err := exec.CommandContext(t.Context(), interpreter, "-S", "-c", "import sys; print(*sys.stdlib_module_names)").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	witness = filepath.Join(t.TempDir(), "imported")
	code := "with open(" + `"` + witness + `"` + ", 'a') as f: f.write(__name__ + '\\n')\n"
	for name := range strings.FieldsSeq(string(names) + own) {
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	// This one may import them: it shows that an import is seen.
	_ = exec.CommandContext(t.Context(), interpreter, "-c", "import random").Run() // it fails without what random has
	if found, err := os.ReadFile(witness); err != nil || !strings.Contains(string(found), "random\n") {
		t.Fatalf("an import is not seen: %q, %v", found, err)
	}
	if err := os.Remove(witness); err != nil {
		t.Fatal(err)
	}
	return witness
}

// checkUntouched demands that nothing of the folder was imported.
func checkUntouched(t *testing.T, witness string) {
	t.Helper()
	if found, err := os.ReadFile(witness); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("imported of the working directory: %q, %v", found, err)
	}
}

// TestNothingOfTheWorkingDirectoryIsImported: a script elsewhere finds the modules that its own command finds;
// TestAScriptWithoutTheModule has it of torch's.
func TestNothingOfTheWorkingDirectoryIsImported(t *testing.T) {
	witness := hostile(t)
	for _, options := range [][]string{{"-B"}, {"-B", "-s"}, {"-B", "-S"}} {
		script := filepath.Join(t.TempDir(), "train.py")
		if err := os.WriteFile(script, []byte("import sys\nsys.modules['torch'] = None\nimport random, colorsys\n"+loop), 0o644); err != nil {
			t.Fatal(err)
		}
		o := Options{
			Command: append(append([]string{interpreter}, options...), script), Sizes: []int{1, 2}, Nodes: 1, StepsEach: 1, BatchSize: 2,
			Tolerance: Bitwise, Limit: time.Minute, Told: t.Output(),
		}
		if r, err := Run(t.Context(), o); err != nil || !r.Good() {
			t.Errorf("%v: %v %+v", options, err, r)
		}
	}
	checkUntouched(t, witness)
}

// TestThePathOfModules: it has the user's own, as it is, and is not made of a folder's name that it would be cut at.
func TestThePathOfModules(t *testing.T) {
	dir := t.TempDir()
	for given, want := range map[string]string{"": dir, "/a:/b": dir + ":/a:/b"} {
		t.Setenv("PYTHONPATH", given)
		if got, err := python(dir); err != nil || got != want {
			t.Errorf("with %q: %q, %v", given, got, err)
		}
	}
	colon := filepath.Join(dir, "a:b")
	if got, err := python(colon); err == nil || !strings.Contains(err.Error(), "set TMPDIR to a directory without one") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestWhatIsKept: a folder with something in it is refused; what lies there would be taken for a world's.
func TestWhatIsKept(t *testing.T) {
	dir := t.TempDir()
	o := Options{
		Command: []string{"sh", "-c", "exit 3"}, Sizes: []int{2, 1}, Nodes: 1, StepsEach: 1, BatchSize: 2,
		Tolerance: Bitwise, Limit: time.Minute, Keep: filepath.Join(dir, "kept"),
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(o.Keep, "never", "0", "rank-0.log")); err != nil {
		t.Error(err)
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it has never in it: name a new or an empty directory") {
		t.Error(err)
	}
}
