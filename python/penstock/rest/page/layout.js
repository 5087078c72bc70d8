// Places the vertices of a job: in layers along the flow of data, few crossings, short edges.
//
// Layers are the longest paths from a source; an edge over several layers has a dummy node in each
// of them.  The order within a layer follows the mean of the neighbours, swept back and forth
// (Sugiyama's method); places are the least-squares solution that keeps order and distance.

const SWEEPS = 8, STRAIGHTENING = 40;

// nodes: [{id, inputs: [{id}]}]; size: {length, breadth, gapLength, gapBreadth} along and across
// the flow.  Returns places by id as {along, across}, edges with their points, and the extent.
export function layout(nodes, size) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const layer = layers(nodes, known);
  const columns = [];
  const put = (cell) => {
    (columns[cell.layer] ??= []).push(cell);
    return cell;
  };
  const cells = new Map(nodes.map((node) =>
    [node.id, put({ layer: layer.get(node.id), breadth: size.breadth, before: [], behind: [] })]));
  const edges = [];
  for (const node of nodes) {
    (node.inputs ?? []).forEach((input, index) => {
      if (!known.has(input.id)) return;
      const chain = [cells.get(input.id)], target = cells.get(node.id);
      for (let at = chain[0].layer + 1; at < target.layer; at += 1) {
        chain.push(put({ layer: at, breadth: size.breadth / 5, before: [], behind: [] }));
      }
      chain.push(target);
      for (let step = 1; step < chain.length; step += 1) {
        chain[step].before.push(chain[step - 1]);
        chain[step - 1].behind.push(chain[step]);
      }
      edges.push({ from: input.id, to: node.id, index, input, chain });
    });
  }
  order(columns);
  spread(columns, size.gapBreadth);
  const pitch = size.length + size.gapLength;
  const least = Math.min(...columns.flat().map((cell) => cell.at - cell.breadth / 2));
  const place = (cell) => ({ along: cell.layer * pitch, across: cell.at - least });
  return {
    places: new Map([...cells].map(([id, cell]) => [id, place(cell)])),
    edges: edges.map(({ chain, ...edge }) => ({ ...edge, points: points(chain.map(place), size) })),
    length: columns.length * pitch - size.gapLength,
    breadth: Math.max(...columns.flat().map((cell) => cell.at + cell.breadth / 2)) - least,
  };
}

function layers(nodes, known) {
  const found = new Map(), visiting = new Set();
  const visit = (id) => {
    if (found.has(id) || visiting.has(id)) return found.get(id) ?? -1;  // a cycle of an iteration
    visiting.add(id);
    const inputs = (known.get(id).inputs ?? []).filter((input) => known.has(input.id));
    found.set(id, Math.max(-1, ...inputs.map((input) => visit(input.id))) + 1);
    return found.get(id);
  };
  nodes.forEach((node) => visit(node.id));
  // A source is placed beside its readers, not in the first layer.
  const readers = new Map();
  for (const node of nodes) {
    for (const input of node.inputs ?? []) {
      readers.set(input.id, Math.min(readers.get(input.id) ?? Infinity, found.get(node.id)));
    }
  }
  for (const node of nodes) {
    if (!(node.inputs ?? []).length && readers.has(node.id)) {
      found.set(node.id, Math.max(0, readers.get(node.id) - 1));
    }
  }
  return found;
}

function order(columns) {
  columns.forEach((column) => column.forEach((cell, index) => { cell.rank = index; }));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) {
      for (const cell of column) {
        const beside = forward ? cell.before : cell.behind;
        cell.wish = beside.length
          ? beside.reduce((sum, other) => sum + other.rank, 0) / beside.length : cell.rank;
      }
      column.sort((a, b) => a.wish - b.wish || a.rank - b.rank);
      column.forEach((cell, index) => { cell.rank = index; });
    }
  }
}

function spread(columns, gap) {
  for (const column of columns) {
    let at = 0;
    for (const cell of column) {
      cell.at = at + cell.breadth / 2;
      at += cell.breadth + gap;
    }
    const middle = at / 2;
    column.forEach((cell) => { cell.at -= middle; });
  }
  for (let sweep = 0; sweep < STRAIGHTENING; sweep += 1) {
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const wishes = column.map((cell) => {
        const beside = [...cell.before, ...cell.behind];
        return beside.length
          ? beside.reduce((sum, other) => sum + other.at, 0) / beside.length : cell.at;
      });
      place(column, wishes, gap);
    }
  }
}

// The places nearest to the desired ones that keep order and distance: isotonic regression.
function place(column, wishes, gap) {
  const offsets = [0];
  for (let index = 1; index < column.length; index += 1) {
    offsets.push(offsets[index - 1] +
      (column[index - 1].breadth + column[index].breadth) / 2 + gap);
  }
  const blocks = [];
  wishes.forEach((wish, index) => {
    blocks.push({ sum: wish - offsets[index], size: 1 });
    while (blocks.length > 1 && mean(blocks.at(-2)) > mean(blocks.at(-1))) {
      const last = blocks.pop();
      blocks.at(-1).sum += last.sum;
      blocks.at(-1).size += last.size;
    }
  });
  let index = 0;
  for (const block of blocks) {
    for (let step = 0; step < block.size; step += 1, index += 1) {
      column[index].at = mean(block) + offsets[index];
    }
  }
}

function mean(block) {
  return block.sum / block.size;
}

function points(places, size) {
  return places.flatMap(({ along, across }, index) => {
    if (index === 0) return [[along + size.length, across]];
    if (index === places.length - 1) return [[along, across]];
    return [[along, across], [along + size.length, across]];
  });
}
