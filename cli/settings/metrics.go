package settings

import (
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/metrics"
)

// scraping is where a daemon can be scraped by Prometheus.
type scraping struct{ address string }

func scrapingFlag(f *flags.Set) *scraping {
	s := &scraping{}
	f.StringVar(&s.address, "metrics-address", "", "ip:port at which Prometheus can scrape /metrics, such as 127.0.0.1:9464; it asks for no password (default: nowhere)")
	return s
}

func (s *scraping) check() error {
	if s.address == "" {
		return nil
	}
	if err := metrics.CheckAddress(s.address); err != nil {
		return fault.Usage("--metrics-address %w", err)
	}
	return nil
}
