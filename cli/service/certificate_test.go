package service

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/trust"
)

// The end of a certificate is announced in time, until it is renewed.
func TestTheEndOfACertificateIsAnnounced(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, folder := filepath.Join(dir, "ca"), filepath.Join(dir, "n1")
	if err := trust.Init(ca, "test", false, now); err != nil {
		t.Fatal(err)
	}
	request := trust.Request{Authority: ca, Folder: folder, Node: "n1", Life: 40 * 24 * time.Hour}
	if err := trust.Issue(request, now); err != nil {
		t.Fatal(err)
	}
	identity, err := trust.Load(folder, "n1")
	if err != nil {
		t.Fatal(err)
	}
	said := func(at time.Time) string {
		var b bytes.Buffer
		warnOfEnd(zerolog.New(&b), identity, at)
		return b.String()
	}
	if got := said(now); got != "" {
		t.Errorf("40 days before: %s", got)
	}
	late := now.Add(20 * 24 * time.Hour)
	if got := said(late); !strings.Contains(got, `"level":"warn"`) || !strings.Contains(got, "bellows tls renew n1") {
		t.Errorf("20 days before: %q", got)
	}
	request.Renew, request.Life = true, 80*24*time.Hour
	if err := trust.Issue(request, now); err != nil {
		t.Fatal(err)
	}
	if got := said(late); got != "" {
		t.Errorf("renewed: %s", got)
	}
}
