package durable

import (
	"encoding/json"
	"fmt"
	"os"
)

// WriteJSON is Write for a value, as a line of JSON that only the owner may read.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return Write(path, append(b, '\n'), 0o600)
}

// ReadJSON reads what WriteJSON has written. The error of a file that is not there is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}
