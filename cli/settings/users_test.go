package settings

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/record"
)

func TestUserFlags(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) (record.Limits, error) {
		f := flags.New("coordinator")
		u := newUserFlags(f)
		if err := f.Parse(args); err != nil {
			return record.Limits{}, err
		}
		return u.limits()
	}
	if got, err := parse(); err != nil || !got.Equal(record.DefaultLimits()) {
		t.Errorf("%+v, %v", got, err)
	}
	own := uint64(os.Getuid())
	got, err := parse("--user-live-jobs", "7", "--user-bytes", "1M", "--unlimited-users", strconv.FormatUint(own, 10)+",4242")
	if err != nil || got.LiveJobs != 7 || got.Bytes != 1<<20 || !got.Exempts(4242) || !got.Exempts(uint32(own)) || got.Exempts(4243) {
		t.Errorf("%+v, %v", got, err)
	}
	for arg, want := range map[string]string{
		"--user-live-jobs=0":               "--user-live-jobs 0: use 1 or more",
		"--user-kept-jobs=0":               "--user-kept-jobs 0: use 1 or more",
		"--user-submits-per-minute=0":      "--user-submits-per-minute 0: use 1 or more",
		"--user-connections=3":             "--user-connections 3: use 4 or more",
		"--user-priority=101":              "--user-priority 101: use -100 to 100",
		"--user-bytes=1K":                  "--user-bytes 1024: use 524288 bytes or more",
		"--unlimited-users=no such person": `--unlimited-users "no such person": use names of users that this machine knows, or their uids`,
	} {
		if _, err := parse(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", arg, err, want)
		}
	}
}

// A directory of users that is late at boot does not end the coordinator for good; a
// name that it does not know does, and a uid needs no directory.
func TestALateDirectoryOfUsersPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		err   error
		usage bool
	}{
		{"alice", errors.New("user: lookup username alice: connection refused"), false},
		{"alice", user.UnknownUserError("alice"), true},
	} {
		u := newUserFlags(flags.New("coordinator"))
		u.lookup = func(string) (*user.User, error) { return nil, c.err }
		u.unlimited = []string{c.name}
		_, err := u.limits()
		if err == nil || fault.IsUsage(permanent(err)) != c.usage || !strings.Contains(err.Error(), `--unlimited-users "alice": `) {
			t.Errorf("%v: %v", c.err, err)
		}
		u.unlimited = []string{"4242"}
		if l, err := u.limits(); err != nil || !l.Exempts(4242) {
			t.Errorf("a uid: %+v, %v", l, err)
		}
	}
}
