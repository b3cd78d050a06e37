"""The words that documents, help texts and messages leave to others, each with what they write instead; and those of names
in code.

A pattern is a regular expression that begins at a word's beginning; letter case does not count. An exception is a file
(a pattern of its path), a regular expression that covers the word where it may stand, and the reason.
"""

WORDS = [
    # The field's terms.
    (r"prices?\b|priced\b", "rate weight, lambda"),
    (r"dear(er|est)?\b", "costly, sensitive"),
    (r"dead (tensor|model|weight|unit|net)s?\b|alive\b", "collapsed, not collapsed"),
    (r"lost (model|tensor|net)s?\b", "collapsed"),
    (r"coder's opinion|opinions?\b", "the entropy model's probability"),
    (r"shown to the coder\b|looks? at the coder\b|asks? the coder\b", "the entropy model is refreshed"),
    (r"residual parameters?\b", "quantized weights"),
    (r"learned steps\b", "step sizes"),
    (r"(held|holds?|holding)[- ]back\b", "held out, held-out split"),
    (r"memory of (the )?held", "overfit to the held-out split, leakage"),
    (r"pictures?\b", "images"),
    (r"whole numbers?\b", "integers"),
    (r"mirrored\b|mirroring\b", "horizontal flip"),
    (r"(take|takes|taking|taken|took) up (a run|the run|where|again|by)\b", "resume"),
    (r"mend(s|ed|ing)?\b", "fix"),
    (r"(go|goes|going|went) on\b", "continue, resume"),
    (r"lands? (at|on|below|above|within)\b|landed\b", "reach, end at"),
    (r"bits (a|per) number\b|numbers a weight\b", "bits per weight"),
    (r"curve of bytes\b", "rate-distortion curve"),
    (r"nobody trains?\b|where nothing is trained\b", "post-training quantization, without training"),
    (r"trained with what\b", "quantization-aware training"),
    (r"rests with\b", "temporary files"),
    # Verdicts for an absent client; persons where there are none.
    (r"missed\b|misses the target\b", "exceeds its target"),
    (r"met\b", "reached"),
    (r"wanted\b", "expected, target"),
    (r"goals?\b", "target"),
    (r"asked\b", "given, requested"),
    (r"asks? (for|the|what|whether|of)\b", "requires"),
    (r"nobody\b", "no process, no user"),
    (r"(is|are|was|were) told\b", "is reported"),
    (r"believes?\b|is convinced\b", "(nothing is personified)"),
    (r"(program|coder|codec|compress|gbcompress|reader|file|model|it|verb|interface) (knows|thinks|wants|remembers|answers)\b",
     "(nothing is personified)"),
    # American spelling.
    (r"quantis", "quantiz-"),
    (r"(minim|maxim|normal|organ|general|serial|initial|optim|recogn|real|final|summar|random|regular|penal|parallel|special"
     r"|synchron|vector|visual|token|character|custom|util|author|categor)is(e|es|ed|er|ers|ing|ation|ations)\b", "-ize"),
    (r"(colour|neighbour|behaviour|favour|honour|labour|flavour|rumour|humour|harbour)", "-or"),
    (r"(centre|metre|litre|fibre|theatre)s?\b", "-er"),
    (r"(licence|defence|offence)s?\b", "-se"),
    (r"(analys|catalys|paralys)(e|ed|ing)\b", "-yze"),
    (r"(label|model|travel|cancel|level|signal|channel|fuel)l(ed|ing|er)\b", "one l"),
    (r"(artefact|grey|programme|whilst|amongst|judgement|misspelt|learnt|catalogue|analogue|dialogue|cheque)s?\b",
     "the American word"),
]

# Whole words of the code, comments among them: parts of snake_case and CamelCase names too.
NAMES = {
    "rate weight, lambda, cost": ("price", "prices", "priced", "pricing"),
    "costly, sensitive": ("dear", "dearer", "dearest"),
    "reach, fit to a size": ("land", "lands", "landed"),
    "compare, estimate, measure": ("judge", "judges", "judged", "judging"),
    "weight, magnitude": ("weigh", "weighs", "weighed", "weighing"),
}
# A plan is one thing, what a run of compress() will do, and types say of what they are.
PLANS = ("CompressionPlan",)
VAGUE_TYPES = ("Entry", "Plan", "Rule")

FORMER = "a former name"
EXCEPTIONS = [
    ("CHANGELOG.md", r"`rate\.quantiser`|`Quantiser`", FORMER),
    ("core/src/format/torch/training_state.cpp", r"optimiser", "a key of checkpoints that others write"),
    ("core/src/compress/quality/held_out_split.cpp", r"hold back", "the name of a random stream: files depend on it"),
    ("cli/report/page.html", r"const wanted|includes\(wanted\)", "code"),
    ("docs/reference/inputs.md", r"users who ask whether", "users are persons"),
]
