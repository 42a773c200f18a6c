"""Makes the pocket models from nothing: tokenizer, demonstrations, training, measurement. One call, resumable.

    base      learns the house, its texts and the three prompt modes from the expert and from plain transitions:
              first on short contexts, where everything can be learned cheaply, then on all of them
    teacher   the base, trained on with the expert's full responses
    student   the base, trained on with sloppy demonstrations: the skills are there and are used badly

Teacher and student have one tokenizer and one architecture, as two models of one family would. No evaluation
task is ever trained on: demonstrations come from the train split alone.
"""

from __future__ import annotations

RESULT_FILE = "build_result.json"
