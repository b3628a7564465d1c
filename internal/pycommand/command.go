// Package pycommand reads command lines that run a Python script.
//
// It promises to understand a command as the interpreter does, or to say why it does not: what is not known is never
// guessed, for a launcher is then started with other options than the script.
package pycommand

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bellows-ml/bellows/record"
)

// Command is a command that runs a Python script.
type Command struct {
	Head     []string // what comes before the script: the interpreter, perhaps by env, and its options
	Script   string   // its path, or a module's name
	IsModule bool
	Args     []string
	Cold     string // why the command is none; the rest is empty then
	Other    bool   // it is none of Python's at all
}

var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

// Options of the interpreter, by letter.
const (
	plainOptions = "bBdOqRsuvxP"
	valueOptions = "WX" // a value follows, at once or as the next word
)

// Parse reads a command. words is what the kernel ends up with: for a script with
// an interpreter in its first line, that line's words, the script, and its arguments.
func Parse(words []string) Command {
	i := 0
	if i < len(words) && filepath.Base(words[i]) == "env" {
		i++
		for i < len(words) && strings.Contains(words[i], "=") && !strings.HasPrefix(words[i], "-") {
			i++
		}
	}
	if i >= len(words) || !pythonName.MatchString(filepath.Base(words[i])) {
		return Command{Cold: record.NoScript, Other: true}
	}
	for i++; i < len(words); i++ {
		word := words[i]
		if word == "-m" && i+1 < len(words) {
			return Command{Head: words[:i], Script: words[i+1], IsModule: true, Args: words[i+2:]}
		}
		if !strings.HasPrefix(word, "-") {
			return Command{Head: words[:i], Script: word, Args: words[i+1:]}
		}
		takes, bad := option(word)
		if bad != "" {
			return Command{Cold: bad}
		}
		if takes {
			i++
		}
	}
	return Command{Cold: "the command gives Python no script"}
}

// option says whether a word of options takes the next word as a value, or why it
// keeps a launcher from being started.
func option(word string) (takes bool, bad string) {
	if word == "-" || strings.HasPrefix(word, "--") {
		return false, "the option " + word + " of Python is not known to launchers"
	}
	for i, c := range word[1:] {
		switch {
		case strings.ContainsRune(valueOptions, c):
			return i+2 == len(word), ""
		case strings.ContainsRune("EIS", c):
			return false, "with the option -" + string(c) + " Python does not see what the launcher needs"
		case !strings.ContainsRune(plainOptions, c):
			return false, "the option -" + string(c) + " of Python is not known to launchers"
		}
	}
	return false, ""
}

// ParseShebang reads a script's first line; nil if it names no interpreter. The kernel
// gives it one argument at most.
func ParseShebang(start []byte) []string {
	line, _, ended := strings.Cut(string(start), "\n")
	rest, is := strings.CutPrefix(line, "#!")
	if !is || !ended {
		return nil
	}
	name, arg, _ := strings.Cut(strings.Trim(rest, " \t"), " ")
	words := []string{name}
	if arg = strings.Trim(arg, " \t"); arg != "" {
		words = append(words, arg)
	}
	return words
}
