// Package trust lets agents know each other: a small certificate authority that
// is a folder of files, and the TLS settings of two nodes that talk.
//
// It promises that
//   - a connection is TLS 1.3 with a certificate on both sides, each issued by an
//     authority of this cluster for a node that it names; host names and addresses
//     do not count, so that a node may move;
//   - who is asked is who was meant: a certificate of another node of the same
//     cluster is refused too;
//   - files are read again when they change: a renewed certificate, or a second
//     authority beside an old one, takes effect with the next connection, without
//     a restart;
//   - keys are readable by their owner only, and never overwritten by accident;
//   - a refusal says what is wrong and what to do, on the side that refuses.
//
// ADR 24 says what a certificate names and what its holder may ask for.
package trust
