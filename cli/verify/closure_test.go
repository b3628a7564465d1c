package verify

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestClosures: optimizers that evaluate a closure, as Lightning's and LBFGS, train within their step. What
// is seen of it is the first evaluation: its loss, its gradient, the batches it was of. Batches of another loader,
// on which the script does not train, are none of a step's.
func TestClosures(t *testing.T) {
	r := torched(t, closures, Rounding)
	if !r.Good() || len(r.Losses) != 6 || r.Losses[0] == r.Losses[5] || r.SamplesTwice+r.SamplesNever != 0 {
		t.Errorf("%+v", r)
	}
	for _, q := range r.Quantities {
		if !q.Seen {
			t.Errorf("%s was not seen", q.Name)
		}
	}
}

// closures is a script whose loader is its own and whose forward and backward passes are in a closure.
const closures = `import torch, torch.distributed as dist, bellows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
rank, world = bellows.rank(), bellows.world_size()
if world > 1: dist.init_process_group("gloo")
data = TensorDataset(torch.randn(256, 6), torch.randn(256, 2))
plain = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.LBFGS(plain.parameters(), lr=0.1, max_iter=3)
checkpoint = bellows.resume()
step = checkpoint.step if checkpoint else 0
if checkpoint:
    state = torch.load(checkpoint.shard(0) + "/state")
    plain.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
mine = [list(range(16 * s, 16 * s + 16))[16 * rank // world:16 * (rank + 1) // world] for s in range(step, 16)]
parts = [part[n:n + 8] for part in mine for n in range(0, len(part), 8)] # a world of 1 accumulates
loader = iter(DataLoader(data, batch_sampler=parts))
while not bellows.should_stop(step):
    bellows.seed(step)
    batches = [next(loader) for _ in range(2 // world)]
    def closure():
        optimizer.zero_grad()
        for x, y in batches:
            loss = nn.functional.mse_loss(model(x), y) / len(batches)
            loss.backward()
        return loss
    optimizer.step(closure)
    step += 1
    for x, y in DataLoader(data, batch_size=64): plain(x) # an evaluation, without no_grad, as of Hugging Face's Trainer
def write(directory):
    if rank == 0:
        torch.save({"model": plain.state_dict(), "optimizer": optimizer.state_dict()}, directory + "/state")
bellows.save(step, write)
`

// TestUnlikeNumbersOfBatches: rank 1 has a batch less than rank 0, which waits for it for ever or meets its end.
func TestUnlikeNumbersOfBatches(t *testing.T) {
	_, err := triedWithTorch(t, uneven, Statistical)
	const want = "ranks take unlike numbers of batches: the loop of rank 1 was over after 4, and rank 0 has begun number 5"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

const uneven = `import torch, torch.distributed as dist, bellows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
dist.init_process_group("gloo")
data = TensorDataset(torch.randn(9, 4), torch.randn(9, 2))
loader = DataLoader(data, batch_size=1, sampler=range(bellows.rank(), 9, 2))
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
for x, y in loader:
    if bellows.should_stop(step): break
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    step += 1
bellows.save(step, lambda directory: None)
`

func TestWhoTakesUnlikeNumbers(t *testing.T) {
	for _, tt := range []struct {
		ranks []batches
		named string
	}{
		{nil, ""},
		{[]batches{{4, 4}, {5, -1}}, "rank 0 was over after 4, and rank 1 has begun number 5"},
		{[]batches{{7, -1}, {7, -1}, {6, 6}}, "rank 2 was over after 6, and rank 0 has begun number 7"},
		{[]batches{{0, 0}, {1, -1}}, "rank 0 was over after 0, and rank 1 has begun number 1"},
		{[]batches{{0, -1}, {1, -1}}, ""}, // not seen, or about to begin
		{[]batches{{4, -1}, {5, -1}}, ""}, // one that failed, and one that waits for it
		{[]batches{{4, 4}, {5, 4}}, ""},   // a pass has ended on both, and one of them is in the next
		{[]batches{{5, 4}, {5, 4}}, ""},
		{[]batches{{5, 4}, {6, -1}}, ""}, // one in its next pass may be a batch behind
		{[]batches{{4, 4}, {4, -1}}, ""},
	} {
		if got := unlike(tt.ranks); !strings.Contains(got, tt.named) || (got == "") != (tt.named == "") {
			t.Errorf("%v: %q", tt.ranks, got)
		}
	}
}

// TestNodesOfAWorld: the workers are told that they are on several nodes, as agents would tell them.
func TestNodesOfAWorld(t *testing.T) {
	for _, tt := range []struct {
		size, nodes int
		want        []string // GROUP_RANK, LOCAL_RANK, LOCAL_WORLD_SIZE and BELLOWS_NODE of each rank
	}{
		{4, 1, []string{"0 0 4 verify0", "0 1 4 verify0", "0 2 4 verify0", "0 3 4 verify0"}},
		{4, 2, []string{"0 0 2 verify0", "0 1 2 verify0", "1 0 2 verify1", "1 1 2 verify1"}},
		{2, 4, []string{"0 0 1 verify0", "1 0 1 verify1"}},
		{1, 2, []string{"0 0 1 verify0"}},
	} {
		var got []string
		for rank := range tt.size {
			env := map[string]string{}
			for _, v := range (&world{size: tt.size}).variables(&Options{Nodes: tt.nodes}, rank, 1) {
				name, value, _ := strings.Cut(v, "=")
				env[name] = value
			}
			got = append(got, fmt.Sprint(env["GROUP_RANK"], " ", env["LOCAL_RANK"], " ", env["LOCAL_WORLD_SIZE"], " ", env["BELLOWS_NODE"]))
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d workers on %d nodes: %q", tt.size, tt.nodes, got)
		}
	}
}
