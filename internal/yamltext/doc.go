// Package yamltext reads files that people write in YAML, and writes results in it.
//
// It promises that a reader is told the line of every key and value, so that a fault can be
// reported where it stands; that a file holds one document; and that an alias costs no more
// than what it names, however often it is used. What a key means is its reader's business.
// It is the one package that imports the library for YAML.
package yamltext
