package main

import (
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/agent/host"
)

// hosting is how an agent holds workers and what it keeps of them.
type hosting struct {
	containment string
}

func hostingFlags(f *pflag.FlagSet) *hosting {
	h := &hosting{}
	f.StringVar(&h.containment, "containment", "auto",
		"what holds workers together: cgroup2, cgroup1 (the v1 freezer), weak, or auto: the strongest that there is")
	return h
}

func (h *hosting) apply(cfg *host.Config) {
	if h.containment != "auto" {
		cfg.Containment = h.containment
	}
}
