package checkpoint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/record"
)

// A list that belongs to others, or is of another format, is refused by what it is.
func TestAPartThatIsNotItsNodes(t *testing.T) {
	for text, want := range map[string]string{
		`{"format":1,"ranks":[3],"files":[]}`: "it lists the files of rank 3 in format 1, want rank 0 in format 1",
		`{"format":2,"ranks":[0],"files":[]}`: "it lists the files of rank 0 in format 2, want rank 0 in format 1",
		`{"format":`:                          "it is no list of the files of rank 0: unexpected end of JSON input",
	} {
		d := disk(t, "step-1/x")
		if err := d.Put("step-1/"+checkpoint.PartName([]int{0}), []byte(text)); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		part := record.Saved{Part: &record.Part{Ranks: []int{0}, SHA256: hex.EncodeToString(sum[:])}}
		_, _, err := checkpoint.Assemble(d, "step-1", checkpoint.Title{}, []record.Saved{part})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
