package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/internal/fault"
)

func TestAListHoldsEachFaultOnce(t *testing.T) {
	t.Parallel()
	var inner, outer fault.List
	inner.Usage("--a %d: use 1", 0)
	inner.Usage("--b: use 2")
	outer.Add(nil)
	outer.Add(inner.Err())
	outer.Add(errors.New("c"))
	if got, want := outer.Error(), "--a 0: use 1\n--b: use 2\nc"; got != want || len(outer) != 3 {
		t.Errorf("%q, want %q", got, want)
	}
	if !fault.IsUsage(outer.Err()) || fault.IsUsage(errors.New("c")) {
		t.Error("a list with a fault of usage is one of usage")
	}
	if err := (fault.List{}).Err(); err != nil {
		t.Errorf("an empty list is %v", err)
	}
	joined := fault.AsUsage(errors.Join(errors.New("x"), errors.Join(errors.New("y"), errors.New("z"))))
	var texts []string
	for _, err := range fault.Each(joined) {
		texts = append(texts, err.Error())
	}
	if !slices.Equal(texts, []string{"x", "y", "z"}) || fault.AsUsage(nil) != nil || fault.Each(nil) != nil {
		t.Errorf("taken apart: %q", texts)
	}
}

func TestErrorsAreFoundBelowTheirTexts(t *testing.T) {
	t.Parallel()
	_, err := os.Stat("/no/such/file")
	if got := fault.Reason(err); got.Error() != "no such file or directory" {
		t.Errorf("the reason is %v", got)
	}
	err = fault.WithRemedy(fmt.Errorf("look: %w", err), "make it")
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "make it" {
		t.Errorf("%v", err)
	}
}

func TestFaultsOfFlagsAreInPlainWords(t *testing.T) {
	t.Parallel()
	_, number := strconv.ParseInt("x", 10, 64)
	_, span := time.ParseDuration("5")
	for want, err := range map[string]error{
		`--n: not a whole number: "x": invalid syntax`:               fmt.Errorf("--n: %w", number),
		`--t: use a time with its unit, as in 90s, 15m or 1h30m`:     fmt.Errorf("--t: %w", span),
		`use a time with its unit, as in 90s, 15m or 1h30m`:          span,
		`--t "1": use a time with its unit, as in 90s, 15m or 1h30m`: errors.New(`--t "1": time: missing unit`),
	} {
		if got := fault.OfFlag(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
