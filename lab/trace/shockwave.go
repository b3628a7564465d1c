package trace

// readShockwave reads Shockwave's column: how the batch size adapts.
func readShockwave(t *table, a *Arrival) bool {
	a.Adaptation = t.must("batch_adaptation")
	switch a.Adaptation {
	case "", "accordion", "gns", "static":
	default:
		t.fault("batch_adaptation", "unknown", "write accordion, gns or static")
	}
	return true
}
