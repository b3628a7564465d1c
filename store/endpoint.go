package store

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// CheckEndpoint returns an error for a malformed address of etcd, which would never
// answer. An address is host:port, a URL with both, as in https://10.0.0.1:2379, or
// unix:///path.
func CheckEndpoint(endpoint string) error {
	scheme, address, isURL := strings.Cut(endpoint, "://")
	switch {
	case !isURL:
		address = endpoint
	case scheme == "unix" || scheme == "unixs":
		return nil
	case scheme != "http" && scheme != "https":
		return fmt.Errorf("%.80q: use host:port, http://host:port or https://host:port", endpoint)
	}
	host, port, err := net.SplitHostPort(address)
	if n, badPort := strconv.Atoi(port); err != nil || badPort != nil || host == "" || n < 1 || n > 65535 {
		return fmt.Errorf("%.80q: use host:port, as in 127.0.0.1:2379 or [::1]:2379", endpoint)
	}
	return nil
}
