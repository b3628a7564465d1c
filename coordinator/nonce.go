package coordinator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// nonceLength is how many characters of 5 bits a nonce has: too many to make a
// directory for each before a generation does, few enough for a path.
const nonceLength = 12

// nonce names a generation that is about to be planned for good. It follows from the term's
// secret, which makes it unpredictable, and from the number of the transaction: a
// term may outlive a restore of etcd and plan a generation of the same number again.
//
// Where a member's agent is of a version that knows no nonces, there is none:
// what that agent writes would count for nothing.
func nonce(in situation, a cluster.Allocation) string {
	if in.cfg.Secret == "" {
		return ""
	}
	for _, p := range a.Placements {
		if !in.node(p.Node).Alive.Value.Nonces {
			return ""
		}
	}
	return termNonce(in)
}

// termNonce is a nonce that this term has given to nothing else; empty if plans have none.
func termNonce(in situation) string {
	if in.cfg.Secret == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(in.cfg.Secret))
	fmt.Fprint(mac, in.serial) // a hash takes everything
	text := base32.StdEncoding.EncodeToString(mac.Sum(nil))
	return strings.ToLower(text[:nonceLength])
}

// worldNonce is the nonce of the world that is about to be planned: of what was prepared, if this
// term has asked for it and used it in no transaction, unless the world starts cold.
func worldNonce(in situation, a cluster.Allocation, cold bool) string {
	fresh := nonce(in, a)
	if p, ok := in.prepared(in.job); ok && !cold && (fresh != "" || in.cfg.Secret == "") {
		return p.nonce
	}
	return fresh
}
