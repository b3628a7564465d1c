package logprogress

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// TestCapturedOutput reads what real scripts have printed, with the time of each piece: tqdm
// 4.70.1, Trainer of transformers 5.23.0 and Lightning 2.6.6, their output not a terminal.
func TestCapturedOutput(t *testing.T) {
	for _, tt := range []struct {
		file        string
		first, last int64   // steps that are told; -1: none
		line        string  // by which the bar was chosen
		loss        float64 // the last one told
	}{
		{"tqdm", 23, 51, "7%|▋         | 22/300 [00:09<01:56,  2.39it/s]", 0},
		{"tqdm_epochs", 44, 100, "Epoch 1:  72%|███████▏  | 18/25 [00:04<00:01,  4.21it/s, loss=0.0465]", 0.02},
		{"trainer", 26, 78, "10%|█         | 25/250 [00:09<01:22,  2.72it/s]", 2.125},
		{"lightning", 33, 100, "Epoch 1:  28%|██▊       | 7/25 [00:01<00:04,  4.47it/s, train_loss=0.0938, val_loss=0.0858]", 0.0144},
		// With rich installed Lightning draws no bar where its output is no terminal.
		{"lightning_rich", -1, -1, "", 0},
	} {
		t.Run(tt.file, func(t *testing.T) {
			words := captured(t, tt.file)
			if len(words) == 0 {
				words = []Word{{Step: -1}}
			}
			first, last := words[0], words[len(words)-1]
			loss := 0.0
			for _, w := range words {
				if w.Loss != nil {
					loss = *w.Loss
				}
			}
			if first.Step != tt.first || last.Step != tt.last || first.Line != tt.line || loss != tt.loss {
				t.Errorf("told of steps %d to %d, loss %v, by the line %q", first.Step, last.Step, loss, first.Line)
			}
		})
	}
}

// captured are the words that a recording leads to.
func captured(t *testing.T, name string) (words []Word) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := reader(t, cluster.ProgressAuto, Start{})
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var piece struct {
			MS   int64  `json:"ms"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(lines.Bytes(), &piece); err != nil {
			t.Fatal(err)
		}
		if w, ok := r.Add([]byte(piece.Text), time.Duration(piece.MS)*time.Millisecond); ok {
			words = append(words, w)
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return words
}
