// Package ask is how commands talk to the agent of their machine.
//
// It promises to find the agent's socket as docs/cli.md says, to send a request whose fate is
// unknown again with the same identifier, so that it is carried out once, to go on following
// across a restart of the agent without losing or repeating a line, and to say in an error what
// starts an agent that does not answer.
package ask
