// Package systemd is what this program and the service manager have to say to
// each other: that a service is ready and alive, and that the processes of a job
// are none of the agent's.
//
// It promises to do nothing where there is no systemd, and never to be needed for
// safety: a shim that is not in a scope of its own is in a session and a cgroup of
// its own all the same, and the agent's unit kills nothing but the agent.
//
// ADR 33 says which failures end a service for good.
package systemd
