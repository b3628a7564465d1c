package coordinator

// NodesAsked is how often a node was asked whether it meets what a job demands.
func (c *Coordinator) NodesAsked() int { return c.view.byNode.asked }
