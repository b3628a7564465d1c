package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// CheckKind reports what is wrong with the name of a kind of jobs: the rule is that of CheckName.
func CheckKind(kind string) error { return checkWord("kind", kind) }

// KindName is the job's kind: what its owner calls it, or else DefaultKind.
func (s Spec) KindName() string {
	if s.Kind != "" {
		return s.Kind
	}
	return DefaultKind(s.Command)
}

// DefaultKind is the kind of a job whose owner names none: its script's name and a
// digest of the whole command, so that the same script with other arguments, which
// may be another model, is of another kind.
func DefaultKind(command []string) string {
	digest := sha256.Sum256([]byte(strings.Join(command, "\x00")))
	name := []byte(scriptName(command))
	for i, c := range name {
		if !alphanumeric(c) && (c != '.' && c != '_' && c != '-' || i > 0 && name[i-1] == '.') {
			name[i] = '_'
		}
	}
	const digits = 10
	return string(name[:min(len(name), MaxNameBytes-digits-1)]) + "-" + hex.EncodeToString(digest[:])[:digits]
}

// scriptName is the last part of the first word that names a script, or else of the
// program; never empty.
func scriptName(command []string) string {
	for _, w := range command {
		if base := strings.TrimLeft(path.Base(w), "._-"); strings.HasSuffix(base, ".py") || strings.HasSuffix(base, ".sh") {
			return base
		}
	}
	name := ""
	if len(command) > 0 {
		name = strings.TrimLeft(path.Base(command[0]), "._-/")
	}
	if name == "" || !alphanumeric(name[0]) {
		return "job" + name
	}
	return name
}
