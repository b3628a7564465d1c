package trace

// readPAI reads the share of a device that a pod of Alibaba's cluster uses.
func readPAI(t *table, a *Arrival) bool {
	a.DeviceMilli = t.positive("gpu_milli")
	if a.DeviceMilli > 1000 {
		t.fault("gpu_milli", "more than one device", "write thousandths of one device; gpus says how many there are")
	}
	return true
}
