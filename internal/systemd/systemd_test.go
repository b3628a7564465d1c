package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestACommandInAScopeStaysTheSame(t *testing.T) {
	argv := InScope(Scope{Name: ScopeName("train-abcdef", 7, "0a1b2c3d"), Description: "a job", Properties: []string{"MemoryMax=1G"}}, []string{"/bin/x", "--", "-y"})
	i := slices.Index(argv, "--")
	if argv[0] != "systemd-run" || i < 0 || !slices.Equal(argv[i+1:], []string{"/bin/x", "--", "-y"}) {
		t.Fatalf("got %q", argv)
	}
	for _, want := range []string{"--scope", "--property=Delegate=yes", "--property=MemoryMax=1G", "--description=a job", "--slice=" + Slice} {
		if !slices.Contains(argv[:i], want) {
			t.Errorf("%q lacks %s", argv, want)
		}
	}
	if user := slices.Contains(argv[:i], "--user"); user != (os.Geteuid() != 0) {
		t.Errorf("--user: %t", user)
	}
	named := func(a string) bool {
		return strings.HasPrefix(a, "--unit=bellows-train-abcdef-7-0a1b2c3d-") && strings.HasSuffix(a, ".scope")
	}
	if !slices.ContainsFunc(argv, named) {
		t.Errorf("%q has no name", argv)
	}
	if one, two := ScopeName("j", 1, "r"), ScopeName("j", 1, "r"); one == two {
		t.Error("two scopes of one name")
	}
}

func TestWithoutSystemdNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Ready(); err != nil {
		t.Error(err)
	}
	t.Setenv("INVOCATION_ID", "")
	if Managed() {
		t.Error("not a service, and managed")
	}
	t.Setenv("PATH", t.TempDir()) // no systemd-run
	if err := TryScope(t.Context()); err == nil || !strings.Contains(err.Error(), "systemd-run") {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for want, tell := range map[string]func() error{"READY=1": Ready, "WATCHDOG=1": Alive} {
		if err := tell(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := l.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("told %q, %v, want %s", b[:n], err, want)
		}
	}
}

func TestWhatGoesToTheJournal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var s syscall.Stat_t
	if err := syscall.Fstat(int(w.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]bool{
		"": false, fmt.Sprintf("%d:%d", s.Dev, s.Ino): true, fmt.Sprintf("%d:%d", s.Dev, s.Ino+1): false,
	} {
		t.Setenv("JOURNAL_STREAM", stream)
		if Journal(w) != want {
			t.Errorf("$JOURNAL_STREAM %q: %t", stream, !want)
		}
	}
	if got := Warning.Prefix(); got != "<4>" {
		t.Errorf("a warning begins with %q", got)
	}
}
