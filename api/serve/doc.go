// Package serve is an agent's server of the API.
//
// It promises that the caller is whom the kernel says (SO_PEERCRED), never whom
// a request claims to be, and that whatever was accepted lies in etcd before the
// reply goes out, so that it survives everything that can happen afterwards.
//
// A server answers from a mirror of the records that it keeps by watching, so
// reading costs etcd nothing. It decides nothing: what users ask for is written
// as a request below this node, and the leader carries it out.
//
//	person ──unix socket──► Server ──request──► etcd ──► leader
//	                          │  ▲
//	                          │  └──watch── etcd
//	                          └──unix socket or TLS──► other agents' Servers (log files lie on their nodes)
package serve
