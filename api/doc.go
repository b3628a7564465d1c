// Package api is how people, and other agents, talk to an agent: HTTP with JSON over
// a unix socket, or over mutual TLS between nodes. Here are the types on the wire and
// the client; package api/serve is the server.
//
//	c := api.NewClient(socket)
//	jobs, err := c.Jobs(ctx, true)
//
// It promises that the wire types are a contract of their own: a record in etcd may
// change its form without a script that reads `bellows ps -o json` noticing. An error
// that an agent answers with has a Code for programs and a message that names the
// remedy for people.
package api
