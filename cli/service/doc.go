// Package service runs an agent or a coordinator as a service.
//
// It promises that a service ends with the first SIGTERM or SIGINT, that its log never makes it
// wait, that a service manager hears when it is ready and that it lives, that metrics are served
// where they are asked for, and that the end of a certificate is announced weeks before. What the
// service does is decided in agent/host and coordinator/lead.
package service
