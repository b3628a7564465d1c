package main

import "slices"

// All returns the mutants of every package, each named once.
func All() []Mutant {
	return slices.Concat(ofCoordinator, ofAgent, ofRun, ofShim, ofWarmStarts, ofAhead, ofHost, ofStore, ofCheckpoint, ofBounds, ofDeadlines, ofLookAhead, ofPlacement, ofModels, ofStorms)
}
