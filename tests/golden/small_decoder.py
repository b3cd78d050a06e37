"""The profile small of docs/reference/codec-small.md."""

from integer_common import MOST, MOST_VALUE, clamp, divide, log, need, next_state, ratio
from wide_decoder import Wide


def probabilities():
    """[probability of log-odds s, at s + MOST]"""
    table, d = [0] * (2 * MOST + 1), 1 << 31
    for k in range(MOST + 1):
        r = max(1, ((d << 16) + (d + (1 << 31)) // 2) // (d + (1 << 31)))
        table[MOST - k], table[MOST + k] = r, 65536 - r
        d = (d * 4278222805 + (1 << 31)) >> 32
    return table


def stretches(table):
    """[log-odds of probability p]"""
    result, s = [], 0
    for p in range(65536):
        while s < 2 * MOST and table[s] < p:
            s += 1
        result.append(s - MOST)
    return result


P = probabilities()
S = stretches(P)


class Arithmetic:
    def __init__(self, stream):
        self.stream, self.at, self.range, self.offset = stream, 0, (1 << 32) - 1, 0
        for _ in range(4):
            self.offset = self.offset << 8 | self.next()
        need(self.offset != (1 << 32) - 1, "a stream begins with what no encoder writes")

    def next(self):
        need(self.at < len(self.stream) + 3, "the stream ends early")
        byte = self.stream[self.at] if self.at < len(self.stream) else 0
        self.at += 1
        return byte

    def bit(self, p):
        ones = self.range * p >> 16
        if self.offset < ones:
            self.range, bit = ones, 1
        else:
            self.offset -= ones
            self.range -= ones
            bit = 0
        while self.range < 1 << 24:
            self.range <<= 8
            self.offset = self.offset << 8 | self.next()
        return bit

    def finish(self):
        need(self.at == len(self.stream) + 3, "the stream goes on after the last value")


class Model:
    def __init__(self, sizes, sets, start, limit, rate, settling, table, weights):
        self.tables = [[[start, 0] for _ in range(size)] for size in sizes]
        first = [table] * len(sizes) + weights
        self.mixers = [[[list(first), 0] for _ in range(count)] for count in sets]
        self.limit, self.rate, self.settling = limit, rate, settling

    def decode(self, coder, keys, features, sets):
        slots = [table[key] for table, key in zip(self.tables, keys)]
        x = [S[q >> 6] * divide(256 * (10 * n + 4), 10 * n + 7) >> 8 for q, n in slots]
        x += features
        x.append(256)
        both, used = 0, []
        for mixers, chosen in zip(self.mixers, sets):
            mixer = mixers[chosen]
            total = sum(a * b for a, b in zip(x, mixer[0]))
            both += total
            used.append((mixer, P[clamp(total >> 16, -MOST, MOST) + MOST]))
        bit = coder.bit(P[clamp(both >> 17, -MOST, MOST) + MOST])
        for mixer, own in used:
            weights, m = mixer
            hasty = self.rate + self.rate * 48 // (12 + m)
            r = hasty * (8 * self.settling + m) // (8 * (self.settling + m))
            step = (65536 * bit - own) * r
            for i, input_ in enumerate(x):
                weights[i] = clamp(weights[i] + ((input_ * step + (1 << 25)) >> 26),
                                   -(1 << 20), 1 << 20)
            mixer[1] = min(m + 1, 1 << 20)
        for slot in slots:
            q, n = slot
            slot[0] = clamp(q + divide((bit * ((1 << 22) - 1) - q) * 10, 10 * n + 16),
                            64, (1 << 22) - 64)
            slot[1] = min(n + 1, self.limit)
        return bit


ZERO = [2600, 3300, 6600, 6600, 700, 51000, 6600, 51000, 0, 0, 0, 0, 700]
MORE = [6600, 3300, 3300, 13000, 6600, 6600, 6600, 51000, 0, 0, 0, 0, 0]


def level(f):
    return clamp(divide(f + 2048, 80), 0, 31)


def sign(v):
    return 2 if v > 0 else 1 if v < 0 else 0


class Small:
    def __init__(self, stream):
        self.coder = Arithmetic(stream)
        self.zero = Model([128, 2048, 512, 2048], [4, 8], 209715, 128, 544, 1 << 30, 7340, ZERO)
        self.sign = Model([9, 81, 27], [1, 8], 1 << 21, 255, 7936, 1024, 36700, [51000, 6600, 0])
        self.more = Model([40, 400, 1280, 1280], [6, 8], 1258291, 1023, 1072, 8192, 13107, MORE)
        self.exponent = Model([21], [1, 8], 1 << 21, 255, 1072, 8192, 13107, MORE)
        self.links, self.large = [], None

    def tensor(self, rows, cols, stride, kind, prior):
        """kind: 1 where the values are dependent, 2 where they are wide, else 0"""
        if cols == 1:
            rows, cols, stride = 1, rows, 0
        dependent, large = kind == 1, None
        if kind == 2:
            large = self.large = self.large or Wide(self.coder, Model)
            large.begin(cols)
        s = stride if stride > 1 else 0
        width = s or cols
        height = -(-cols // width)
        link = None
        for sums in self.links:
            if cols % len(sums) == 0 and cols // len(sums) <= 64:
                link = sums
        total, count, of_class = 0, 0, [[0, 0] for _ in range(16)]
        column, signs = [0] * cols, [0] * cols
        before, row_sums, values, state = [0] * cols, [], [], 0
        for r in range(rows):
            row, row_sum = [0] * cols, 0

            def at(c):
                return row[c] if c >= 0 else 0

            def beside_row(c):
                return row[c] if s and c >= 0 else 0

            def sums_at(c):
                return column[c] if 0 <= c < cols else 0

            for c in range(cols):
                left, left2, up = at(c - 1), at(c - 2), beside_row(c - s)
                up_left, up_right = beside_row(c - s - 1), beside_row(c - s + 1)
                up2, above = beside_row(c - 2 * s), before[c]
                e = max(16, ((total << 16) + 6553) // (count + 1))

                def cut(v):
                    return min(abs(v), 4095)

                around = 4 * column[c] + 2 * (sums_at(c - 1) + sums_at(c + 1))
                if s:
                    around += 2 * (sums_at(c - s) + sums_at(c + s))
                    around += sum(sums_at(c + i + j) for i in (-s, s) for j in (-1, 1))
                    near = (2 * (cut(left) + cut(up)) + cut(left2) + cut(up_left) + cut(up_right)
                            + cut(up2))
                    places = [c - 1, c - 2, c - 3]
                    places += [c - i * s + j for i in (1, 2, 3) for j in range(-3, 4)]
                else:
                    around += sums_at(c - 2) + sums_at(c + 2)
                    near = 3 * cut(left) + 2 * cut(left2) + cut(at(c - 3))
                    places = range(c - 12, c)
                places = [p for p in places if 0 <= p < c]
                wide = sum(cut(row[p]) for p in places)
                x, y = c % width, c // width
                x = divide(256 * (2 * x + 1), width) - 256
                y = divide(256 * (2 * y + 1), height) - 256
                kind = of_class[prior[r * cols + c] if prior else 0]
                features = [
                    ratio((column[c] << 18) + 4 * e, 4 * r + 4),
                    ratio((around << 16) + 4 * e, (16 if s else 10) * r + 4),
                    ratio((row_sum << 16) + 24 * e, c + 24),
                    ratio((near << 16) + 16 * e, (8 if s else 6) + 16),
                    ratio(e, 1),
                    self.linked(link, cols, c),
                    ratio((wide << 16) + 8 * e, len(places) + 8),
                    ratio((kind[0] << 16) + 8 * e, kind[1] + 8),
                    x, (x * x >> 7) - 256, y, (y * y >> 7) - 256]
                features[7] -= features[4]
                beside = left, left2, up, up_left, up_right, up2, above, signs[c]
                if large:
                    value = large.value(features, lambda: self.positive(features, *beside))
                    need(abs(value) <= MOST_VALUE, "a value beyond 2^20")
                    large.put(value)
                else:
                    value = self.value(features, *beside, state & 1)
                if dependent:
                    state = next_state(state, value)
                row[c] = value
                magnitude = cut(value)
                total += magnitude
                count += 1
                kind[0] += magnitude
                kind[1] += 1
                column[c] += magnitude
                signs[c] += (value > 0) - (value < 0)
                row_sum += magnitude
            before = row
            row_sums.append(row_sum)
            values.append(row)
        if rows > 1 and cols > 1:
            self.links = (self.links + [row_sums])[-8:]
        return values

    @staticmethod
    def linked(link, cols, c):
        if link is None:
            return 0
        unit = link[c // (cols // len(link))]
        mean = (sum(link) << 16) // len(link)
        return clamp(log((unit << 19) + mean + 655) - log(9 * mean + 655), -MOST, MOST)

    def positive(self, features, left, left2, up, up_left, up_right, up2, above, column_sign):
        keys = [3 * sign(left) + sign(up),
                27 * sign(left) + 9 * sign(up) + 3 * sign(left2) + sign(up_left),
                9 * sign(column_sign) + 3 * sign(above) + sign(up_right)]
        trends = [64 * clamp(2 * left + 2 * up + left2 + up_left + up_right, -8, 8),
                  64 * clamp(column_sign, -8, 8)]
        return self.sign.decode(self.coder, keys, trends, [0, level(features[4]) // 4])

    def value(self, features, left, left2, up, up_left, up_right, up2, above, column_sign,
              second):
        coder = self.coder
        l1, l2, l6 = level(features[1]), level(features[2]), level(features[6])
        dense = level(features[4]) // 4
        beside = sum(v != 0 for v in (left, left2, up, up_left, up_right))
        pattern = 0
        for v in (left, up, left2, up_left, up_right, up2):
            pattern = 2 * pattern + (v != 0)
        keys = [pattern, 32 * l1 + l2, 8 * l1 + beside, 32 * l6 + l1]
        keys = [key + size * second for key, size in zip(keys, (64, 1024, 256, 1024))]
        if not self.zero.decode(coder, keys, features, [min(1, beside) + 2 * second, dense]):
            return 0
        positive = self.positive(features, left, left2, up, up_left, up_right, up2, above,
                                 column_sign)
        neighbours = min(9, abs(left) + abs(up))
        magnitude = 1
        while magnitude <= 20:
            i = magnitude - 1
            keys = [i, 10 * i + neighbours, 32 * i + l1, 32 * i + l2]
            keys = [key + size * second for key, size in zip(keys, (20, 200, 640, 640))]
            if not self.more.decode(coder, keys, features, [min(i, 2) + 3 * second, dense]):
                break
            magnitude += 1
        if magnitude > 20:
            bits = 0
            while bits < 21:
                lower = [clamp(f - 177 * bits, -MOST, MOST) for f in features[:8]] + features[8:]
                if not self.exponent.decode(coder, [bits], lower, [0, dense]):
                    break
                bits += 1
            above_20 = 1
            for _ in range(bits):
                above_20 = 2 * above_20 + coder.bit(32768)
            magnitude = 20 + above_20
        need(magnitude <= MOST_VALUE, "a value beyond 2^20")
        return magnitude if positive else -magnitude

    def finish(self):
        self.coder.finish()
