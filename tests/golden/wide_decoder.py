"""Wide values of the profile small, from docs/reference/codec-small.md."""

from integer_common import MOST, clamp, divide, log, log2

ONE, ENDS = 1 << 30, 1024
TREE_BITS, MOST_BITS = 8, 21


def decays():
    table, d = [], 1 << 31
    for _ in range(MOST + 1):
        table.append(d)
        d = (d * 4278222805 + (1 << 31)) >> 32
    return table


def shares():
    """[shares above k / 64 of the mean], of half a Gaussian and of a Laplace distribution."""
    densities, g, q, h = [[], []], 1 << 31, 4294299804, 1 << 31
    for _ in range(ENDS):
        densities[0].append(g)
        densities[1].append(h)
        g, q, h = g * q >> 32, q * 4294299804 >> 32, h * 4228380000 >> 32
    return [[(sum(table[k:]) << 24) // (sum(table) >> 6) for k in range(ENDS)] + [0]
            for table in densities]


DECAY, SHARE = decays(), shares()


def share_from(table, bound, reciprocal):
    if bound == 0:
        return ONE
    x = (2 * bound - 1) * reciprocal >> 10
    i = x >> 16
    return 0 if i >= ENDS else table[i] - ((table[i] - table[i + 1]) * (x & 65535) >> 16)


class Wide:
    def __init__(self, coder, make_model):
        self.coder = coder
        self.peak = make_model([48], [1, 1], 65536, 1023, 1072, 8192, 65536, [0])
        self.magnitude = make_model([90624] * 3, [32, 43], 1 << 21, 1023, 1072, 8192, 4000,
                                    [13107] * 5 + [0])

    def begin(self, cols):
        self.cols, self.at, self.before, self.here = cols, 0, 0, 0

    def put(self, value):
        self.here = max(self.here, abs(value))
        self.at += 1
        if self.at == self.cols:
            self.before = max(self.before, self.here)
            self.at = self.here = 0

    def decide(self, node, sets, bound):
        features, middles = [], []
        for i, (table, reciprocal) in enumerate(self.asked):
            m = share_from(table, bound, reciprocal)
            features.append(clamp(log(m - self.end[i] + 1) - log(self.start[i] - m + 1), -2047, 2047))
            middles.append(m)
        bit = self.magnitude.decode(self.coder, [16 * node + level for level in self.levels], features,
                                    sets)
        if bit:
            self.start = middles
        else:
            self.end = middles
        return bit

    def value(self, f, sign):
        """sign() decodes whether the value is positive."""
        if self.before:
            left = log2(self.cols - self.at) // 64
            key = 0 if self.here >= self.before else 1 + min(left, 46)
            if self.peak.decode(self.coder, [key], [], [0, 0]):
                return self.before if sign() else -self.before
        narrow = f[0] + f[2] - f[4]
        means = [narrow, divide(f[0] + f[1], 2) + divide(f[2] + f[6], 2) - f[4], f[4], f[3],
                 f[1] + f[2] - f[4]]
        means = [clamp(a, -1024, MOST) for a in means]
        reciprocals = [DECAY[a] if a >= 0 else (1 << 62) // DECAY[-a] for a in means]
        self.asked = list(zip([SHARE[0]] * 4 + [SHARE[1]], reciprocals))
        self.levels = [0] + [clamp(divide(a - f[4] + 384, 48), 0, 15) for a in (f[0], narrow)]
        self.start, self.end, bits = [ONE] * 5, [0] * 5, 0
        while bits < MOST_BITS and self.decide(bits, [bits, bits], 1 << bits):
            bits += 1
        if bits == 0:
            return 0
        positive, m = sign(), 1
        for d in range(bits - 1):
            if d < TREE_BITS:
                bit = self.decide(32 + 256 * bits + m, [21 + min(d, 10), 21 + bits],
                                  (2 * m + 1) << (bits - 2 - d))
            else:
                bit = self.coder.bit(32768)
            m = 2 * m + bit
        return m if positive else -m
