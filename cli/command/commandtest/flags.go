package commandtest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/flags"
)

// CheckFlagValues looks at the names of flags' values: pflag takes what stands in backquotes, which has to be one word.
func CheckFlagValues(t *testing.T, root *cobra.Command) {
	t.Helper()
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *flags.Flag) {
			if value, _ := flags.Unquote(f); strings.Contains(value, " ") {
				t.Errorf("%s --%s %s: use other quotes in its usage", cmd.CommandPath(), f.Name, value)
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(root)
}

// CheckFlagTimes demands that no flag that is a time, of which there are so many at least, takes one that is a slip of the pen, or one that no time.Duration holds.
func CheckFlagTimes(t *testing.T, root *cobra.Command, least int) {
	t.Helper()
	seen := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *flags.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			seen++
			for _, text := range []string{"876001h", "-876001h", "99999999999h", "1h99999999999m"} {
				if err := f.Value.Set(text); err == nil || !strings.Contains(err.Error(), "h at most") {
					t.Errorf("%s --%s %s: %v", cmd.CommandPath(), f.Name, text, err)
				}
			}
			if err := f.Value.Set("20h"); err != nil || f.Value.String() != "20h0m0s" {
				t.Errorf("%s --%s 20h: %v, %s", cmd.CommandPath(), f.Name, err, f.Value)
			}
			if err := f.Value.Set("soon"); err == nil || strings.Contains(err.Error(), "at most") {
				t.Errorf("%s --%s soon: %v", cmd.CommandPath(), f.Name, err)
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	if look(root); seen < least {
		t.Errorf("%d flags are times", seen)
	}
}
