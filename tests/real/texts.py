"""English sentences on eight subjects, and a WordPiece tokenizer for them."""

import unicodedata

SUBJECTS = {  # who or what, and what can be said of it: every pair makes a sentence
    "kitchen": (["The soup on the stove", "My grandmother's apple cake", "The bread from the corner bakery",
                 "A salad of tomatoes and basil", "Their Sunday roast", "The fish we bought this morning"],
                ["needs a little more salt.", "smells wonderful today.", "was finished within ten minutes.",
                 "is best eaten while it is warm.", "burned because nobody was watching.", "costs less than you think."]),
    "weather": (["The storm over the coast", "Last winter's snow", "A warm wind from the south", "The fog in the valley",
                 "The long summer drought", "Tomorrow's rain"],
                ["will slow down traffic in the whole region.", "surprised even the meteorologists.",
                 "damaged several roofs.", "is expected to last until Friday.", "made the rivers rise.",
                 "kept the children indoors."]),
    "computing": (["The new compiler", "A corrupted database", "This Python library", "The web server in Frankfurt",
                   "An old laptop", "Their encryption scheme"],
                  ["crashed twice during the night.", "uses far more memory than expected.", "passed all of its tests.",
                   "was replaced after a security audit.", "runs faster on recent processors.",
                   "cannot read files of that format."]),
    "medicine": (["The vaccine against measles", "A broken wrist", "The patient in room twelve", "High blood pressure",
                  "The surgeon's advice", "A night without sleep"],
                 ["should not be taken lightly.", "usually heals within six weeks.", "was discussed at the conference.",
                  "raises the risk of a heart attack.", "improved after the treatment.", "worried the whole family."]),
    "sport": (["The goalkeeper of the visiting team", "Her first marathon", "The chess champion", "Our local swimming club",
               "The final of the tennis tournament", "A young cyclist from Norway"],
              ["won against all expectations.", "ended in tears.", "drew a crowd of thousands.",
               "trained for months in the mountains.", "was interrupted by rain.", "deserves a gold medal."]),
    "money": (["The central bank", "A small shop in the old town", "The price of copper", "His pension",
               "The merger of the two airlines", "Our rent"],
              ["rose by four percent last year.", "is under pressure from investors.",
               "surprised analysts in London.", "depends on the price of oil.", "will be reviewed in the spring.",
               "fell to its lowest level since the crisis."]),
    "nature": (["A family of foxes", "The oldest oak in the forest", "The coral reef", "An injured owl",
                "The bees behind the barn", "A herd of elephants"],
               ["lives near the abandoned railway.", "is protected by law.", "was photographed from a helicopter.",
                "suffers from rising temperatures.", "wakes up before sunrise.", "attracts visitors from far away."]),
    "arts": (["The violinist's second concert", "A novel about two sisters", "The portrait in the entrance hall",
              "This black and white film", "The museum's new director", "An unknown poem by Keats"],
             ["received excellent reviews.", "was sold at auction for a fortune.", "moved the audience to tears.",
              "tells a story of love and betrayal.", "is younger than most critics.", "hangs between two windows."]),
}
QUESTIONS = ["How do I reset my password?", "Where can I find a doctor who speaks Spanish?",
             "What is the capital of Mongolia?", "Can you recommend a cheap hotel near the station?",
             "Why does bread dough have to rest?", "Who wrote the music of that film?",
             "Is it going to rain tomorrow?", "When does the last train to Berlin leave?"]


def sentences():
    """The same 296 sentences every time."""
    pairs = [f"{who} {what}" for whos, whats in SUBJECTS.values() for who in whos for what in whats]
    return pairs + QUESTIONS


def pieces(text, vocabulary, longest=100):
    """Token numbers of `text` under BERT's lower-case WordPiece: [CLS] words and punctuation [SEP]."""
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    words = "".join(f" {c} " if not (c.isalnum() or c.isspace()) else c for c in text).split()
    tokens = [vocabulary["[CLS]"]]
    for word in words:
        start, found = 0, []
        while start < len(word) and len(word) <= longest:
            end = next((e for e in range(len(word), start, -1) if ("##" if start else "") + word[start:e] in vocabulary), 0)
            if not end:
                break
            found.append(vocabulary[("##" if start else "") + word[start:end]])
            start = end
        tokens += found if start == len(word) else [vocabulary["[UNK]"]]
    return tokens + [vocabulary["[SEP]"]]
