package membership

import (
	"strings"
	"testing"
)

func TestMetaRoundTrip(t *testing.T) {
	for _, m := range []Meta{
		{},
		{Incarnation: "01J-x", API: "10.0.0.3:7070", EtcdOK: true},
		{API: `strange "quotes" and ünïcode`},
	} {
		b, err := m.wire().encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMeta(b)
		if err != nil || got.meta() != m || got.Leaving {
			t.Errorf("%+v became %+v: %v", m, got, err)
		}
	}
}

func TestMetaOfAnotherVersion(t *testing.T) {
	got, err := decodeMeta([]byte(`{"a":"x:1","new":{"field":1}}`))
	if err != nil || got.meta() != (Meta{API: "x:1"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"a":1}`, "\x00\x01"} {
		if _, err := decodeMeta([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Metadata that is just small enough leaves room for the notice of leaving.
func TestMetaLimit(t *testing.T) {
	var largest wireMeta
	for n := range MaxMetaBytes {
		m := wireMeta{API: strings.Repeat("x", n)}
		if _, err := m.encode(); err != nil {
			if !strings.Contains(err.Error(), "the limit is") {
				t.Errorf("%d bytes: %v", n, err)
			}
			break
		}
		largest = m
	}
	largest.Leaving = true
	b, err := largest.encode()
	if err != nil || len(b) != MaxMetaBytes {
		t.Errorf("the largest metadata leaves with %d bytes, %v; want %d", len(b), err, MaxMetaBytes)
	}
}
