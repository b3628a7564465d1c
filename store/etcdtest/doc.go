// Package etcdtest gives a test a real etcd, clients of it, and a connection that
// can be frozen. Everything that it starts ends with the test, clients before
// servers. A failure of its own fails the test.
package etcdtest
