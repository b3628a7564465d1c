package coordinator

// progress is the highest step of the newest generation that its nodes have reported, -1 if none.
func progress(in situation) int64 {
	step := int64(-1)
	for _, m := range in.world().Members {
		if p, ok := in.node(m.Node).Reported(in.ID, in.number(), in.world().Nonce); ok {
			step = max(step, p.Step)
		}
	}
	return step
}
