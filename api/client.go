package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// MaxBody bounds a request, and an error: a spec at its own limits, with room for JSON's escapes.
const MaxBody = 2 * cluster.MaxSpecBytes

const (
	dialTimeout = 2 * time.Second
	// answerTimeout bounds the wait for the beginning of an answer; a stream may then take as long as it likes.
	answerTimeout = 10 * time.Second
	// maxStreamLine is the longest line of a stream: a log line at its cap with every byte escaped, or a status.
	maxStreamLine = 4 << 20
)

// ErrNoAgent means that nothing answers on the socket.
var ErrNoAgent = errors.New("no agent answers")

// Client talks to the agent on one socket. It is safe for concurrent use.
type Client struct {
	path string
	http *http.Client
	user string // the end user, when one agent asks another

	// Silence, if not nil, is called with an answer of an agent that etcd has not
	// answered for so long: it is the last that the agent has heard.
	Silence func(time.Duration)
}

// NewClient makes a client for the socket at path; nothing is dialled yet.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, ResponseHeaderTimeout: answerTimeout, DisableKeepAlives: true},
	}}
}

// Submit asks for a job. Sending the same request again is the same submission.
func (c *Client) Submit(ctx context.Context, req SubmitRequest) (reply SubmitReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, "/v1/jobs", req, &reply)
}

// DryRun asks what would become of a job, which is not submitted.
func (c *Client) DryRun(ctx context.Context, req SubmitRequest) (reply DryRunReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, "/v1/dry-runs", req, &reply)
}

// Stop asks for a job, by identifier or name, to save and stop.
func (c *Client) Stop(ctx context.Context, ref string, req StopRequest) (reply StopReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, jobPath(ref)+"/stop", req, &reply)
}

// Resume asks for a job, by identifier or name, that was stopped, has failed or is held to go on.
func (c *Client) Resume(ctx context.Context, ref string, req ResumeRequest) (reply ResumeReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, jobPath(ref)+"/resume", req, &reply)
}

// Scale asks for other bounds of the worlds of a job, by identifier or name.
func (c *Client) Scale(ctx context.Context, ref string, req ScaleRequest) (reply ScaleReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, jobPath(ref)+"/scale", req, &reply)
}

// Drain asks that a node gets no new work and what runs there saves and goes elsewhere.
func (c *Client) Drain(ctx context.Context, node string, req DrainRequest) (reply DrainReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/drain", req, &reply)
}

// Undrain asks that a node gets work again.
func (c *Client) Undrain(ctx context.Context, node string) (reply DrainReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/undrain", nil, &reply)
}

// Remove asks that a node that is gone for good is one of the cluster's no longer.
func (c *Client) Remove(ctx context.Context, node string) (reply RemoveReply, err error) {
	return reply, c.Call(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/remove", nil, &reply)
}

// Jobs lists the jobs by the time of their submission: those that have not ended, or all.
func (c *Client) Jobs(ctx context.Context, all bool) (list []JobStatus, err error) {
	path := "/v1/jobs"
	if all {
		path += "?all"
	}
	return list, c.Call(ctx, http.MethodGet, path, nil, &list)
}

// Job returns one job, by identifier or name.
func (c *Client) Job(ctx context.Context, ref string) (status JobStatus, err error) {
	return status, c.Call(ctx, http.MethodGet, jobPath(ref), nil, &status)
}

// Nodes lists the nodes by name.
func (c *Client) Nodes(ctx context.Context) (list []NodeStatus, err error) {
	return list, c.Call(ctx, http.MethodGet, "/v1/nodes", nil, &list)
}

// Status tells about the agent itself.
func (c *Client) Status(ctx context.Context) (status AgentStatus, err error) {
	return status, c.Call(ctx, http.MethodGet, "/v1/status", nil, &status)
}

// Watch calls f with the job now and at each change. It returns nil once the
// job has ended, or what f returned.
func (c *Client) Watch(ctx context.Context, ref string, f func(JobStatus) error) error {
	ended := false
	err := stream(ctx, c, jobPath(ref)+"/watch", func(s JobStatus) error {
		ended = s.Ended
		return f(s)
	})
	if err == nil && !ended {
		err = fmt.Errorf("watch job: %w: the agent at %s ended the answer", ErrNoAgent, c.path)
	}
	return err
}

// Logs calls f with each line that the job's workers wrote. It returns nil at
// their end, or what f returned.
func (c *Client) Logs(ctx context.Context, ref string, q LogQuery, f func(LogLine) error) error {
	return c.logLines(ctx, jobPath(ref)+"/logs?"+q.values().Encode(), f)
}

// logLines is stream for log lines, whose last one says that it is the last.
func (c *Client) logLines(ctx context.Context, path string, f func(LogLine) error) error {
	ended := false
	err := stream(ctx, c, path, func(l LogLine) error {
		if l.End {
			ended = true
			return nil
		}
		return f(l)
	})
	if err == nil && !ended {
		err = fmt.Errorf("read logs: %w: the agent at %s ended the answer", ErrNoAgent, c.path)
	}
	return err
}

func jobPath(ref string) string { return "/v1/jobs/" + url.PathEscape(ref) }

// As returns the same client for a request that one agent makes of another, for a user as FormatUser writes it.
func (c *Client) As(user string) *Client {
	other := *c
	other.user = user
	return &other
}

// Call sends a request, and reads its answer.
func (c *Client) Call(ctx context.Context, method, path string, body, answer any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("read answer of the agent at %s: %w", c.path, err)
	}
	return nil
}

// do returns an answer that is a success; its body is the caller's to close.
func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://bellows"+path, content)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	if c.user != "" {
		req.Header.Set(UserHeader, c.user)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		if d, err := time.ParseDuration(resp.Header.Get(SilenceHeader)); err == nil && c.Silence != nil {
			c.Silence(d)
		}
		return resp, nil
	}
	defer resp.Body.Close()
	var e Error
	if err := json.NewDecoder(io.LimitReader(resp.Body, MaxBody)).Decode(&e); err != nil || e.Message == "" {
		return nil, permanent{fmt.Errorf("the agent at %s answers %s to %s %s: is it of another version?", c.path, resp.Status, method, path)}
	}
	return nil, &e
}

// distrust is why a TLS connection was not made.
type distrust struct{ error }

// Unwrap returns the cause.
func (d distrust) Unwrap() error { return d.error }

// explain turns what the kernel says of a socket into what to do about it.
func (c *Client) explain(ctx context.Context, err error) error {
	if d, ok := errors.AsType[distrust](err); ok && ctx.Err() == nil {
		err = fmt.Errorf("talk to the agent at %s: %w", c.path, d.error)
		if brokenOff(d.error) {
			return err
		}
		return permanent{err}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(err.Error(), "remote error: tls: "): // a type that crypto/tls keeps to itself
		return permanent{fmt.Errorf("the agent at %s refuses the certificate of this node, and says why in its log: compare bellows tls show on both", c.path)}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s", ErrNoAgent, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w at %s that you (uid %d) may talk to: %w", ErrNoAgent, c.path, os.Geteuid(), syscall.EACCES)
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	return fmt.Errorf("%w in time at %s: %w", ErrNoAgent, c.path, err)
}

// brokenOff reports whether a connection was not made because the other end
// went away or was slow, and not for what one of them said.
func brokenOff(err error) bool {
	timed, ok := errors.AsType[net.Error](err)
	return ok && timed.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// stream calls f with each JSON line of an answer.
func stream[T any](ctx context.Context, c *Client, path string, f func(T) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, maxStreamLine)
	for scan.Scan() {
		var v T
		if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
			return fmt.Errorf("read answer of the agent at %s: %w", c.path, err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

// Events calls f with each event in order. It returns nil at their end, which
// those that are followed have not, or what f returned. reached is called with
// each revision up to which all has been handed over, and nothing beyond: from
// there a later call goes on without a gap or a repetition.
func (c *Client) Events(ctx context.Context, q EventQuery, f func(Event) error, reached func(revision int64)) error {
	ended := false
	var batch []Event
	err := stream(ctx, c, "/v1/events?"+q.values().Encode(), func(e Event) error {
		if !e.Mark {
			batch = append(batch, e)
			return nil
		}
		for _, x := range batch {
			if err := f(x); err != nil {
				return err
			}
		}
		batch, ended = nil, e.End
		reached(e.Revision)
		return nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("read events: %w: the agent at %s ended the answer", ErrNoAgent, c.path)
	}
	return err
}

// SilenceHeader is for how long etcd has not answered, as time.Duration writes it.
const SilenceHeader = "Bellows-Etcd-Silence"

// UserHeader names the end user in a request that one agent makes of another, as FormatUser writes them.
const UserHeader = "Bellows-User"

// FormatUser writes a user for UserHeader.
func FormatUser(o cluster.Owner) string { return fmt.Sprintf("%d:%d:%s", o.UID, o.GID, o.User) }
