package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag's number of bytes, as people write it: 64M, 1.5GiB, 4096.
// K, M, G and T are powers of 1024, with or without iB.
type Bytes int64

// String implements pflag.Value.
func (b *Bytes) String() string {
	if *b == 0 {
		return "0" // which the help takes for no default
	}
	return strings.ReplaceAll(Size(int64(*b)), " ", "")
}

// Type implements pflag.Value.
func (b *Bytes) Type() string { return "size" }

// Set implements pflag.Value.
func (b *Bytes) Set(text string) error {
	n, err := ParseBytes(text)
	if err == nil {
		*b = Bytes(n)
	}
	return err
}

// ParseBytes reads a number of bytes, which is 1 or more.
func ParseBytes(text string) (int64, error) {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(text), "B"), "i")
	factor := 1.0
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		factor = math.Pow(1<<10, float64(1+strings.IndexByte("KMGT", number[i])))
		number = number[:i]
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil || !(n >= 1 && n < 1<<62) {
		return 0, fmt.Errorf("%q: use a number of bytes, as in 512M or 64GiB", text)
	}
	return int64(n), nil
}
