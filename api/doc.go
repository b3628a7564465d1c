// Package api is how people, and other agents, talk to an agent: HTTP with JSON
// over a unix socket, its server, its client and the types on the wire.
//
// It promises that the wire types are a contract of their own: a record in etcd
// may change its form without a script that reads `bellows ps -o json` noticing.
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
//	                          └──unix socket──► other agents' Servers (log files lie on their nodes)
package api
