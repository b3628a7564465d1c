package coordinator

import "github.com/bellows-ml/bellows/allocator/admit"

// NodesAsked is how often a node was asked whether it meets what a job demands.
func (c *Coordinator) NodesAsked() int { return c.view.byNode.asked }

// Renewed follows a plan of promises, and fills the same anew as a review does.
func Renewed(p admit.Problem) (followed, renewed *admit.Plan, err error) {
	followed, err = admit.Follow(p)
	return followed, keeping{followed}.renewed(outlook{Problem: p}).Plan, err
}
